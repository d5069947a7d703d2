"""One page that holds everything."""

from opentela.placer.report.page import Page


def test_a_page_holds_tables_and_pictures_and_escapes_text() -> None:
    """Nothing is fetched, and nothing in a name becomes markup."""
    page = Page("A <trace>")
    page.heading("Figures")
    page.text("1 < 2")
    page.table(("name", "value"), [("<b>", "1")])
    page.picture(b"\x89PNG", 'what "it" shows')
    made = page.html()
    assert "<h1>A &lt;trace&gt;</h1>" in made
    assert "<td>&lt;b&gt;</td><td>1</td>" in made
    assert 'alt="what &quot;it&quot; shows"' in made
    assert 'src="data:image/png;base64,iVBORw=="' in made
    assert "1 &lt; 2" in made
    assert "http" not in made
