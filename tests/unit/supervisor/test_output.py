"""An engine's output is kept in part, passed on, and never waited for."""

import os
import threading

from opentela.supervisor.output import LINE_BYTES_MAX, QUEUED_CHUNKS_MAX, Copier, Lines


def test_lines_are_cut_at_newlines_and_at_carriage_returns() -> None:
    """A progress bar is many lines; blank ones are none."""
    lines = Lines(10)
    assert lines.feed(b"a\r\nb\rc") == [b"a", b"b"]
    assert lines.feed(b"d\n\n  \n") == [b"cd"]
    assert list(lines.tail) == ["a", "b", "cd"]
    assert lines.last == "cd"


def test_only_the_last_lines_are_kept() -> None:
    """The start of a long life is in the log file."""
    lines = Lines(2)
    lines.feed(b"1\n2\n3\n")
    assert list(lines.tail) == ["2", "3"]


def test_words_without_a_line_end_are_kept_at_the_end() -> None:
    """Last words are often cut off; bytes that are no text are shown as such."""
    lines = Lines(2)
    assert lines.last == ""
    lines.feed(b"bye \xff")
    lines.finish()
    assert lines.last == "bye \ufffd"


def test_a_line_that_never_ends_is_cut() -> None:
    """Memory is bounded whatever the engine prints."""
    lines = Lines(2)
    assert lines.feed(b"x" * (LINE_BYTES_MAX + 1)) == [b"x" * LINE_BYTES_MAX]
    assert lines.feed(b"y\n") == [b"y"]


def test_output_is_copied_in_order() -> None:
    """Byte by byte."""
    read_end, write_end = os.pipe()
    copier = Copier(write_end)
    for number in range(100):
        copier.write(b"%d " % number)
    copier.close()
    os.close(write_end)
    with os.fdopen(read_end, "rb") as reader:
        assert reader.read() == b"".join(b"%d " % number for number in range(100))
    assert copier.dropped_bytes == 0


def test_a_reader_that_does_not_read_costs_output_not_time() -> None:
    """What does not fit is dropped and counted; closing does not wait for ever either."""
    read_end, write_end = os.pipe()
    copier = Copier(write_end)
    chunk = bytes(65536)
    for _ in range(QUEUED_CHUNKS_MAX + 10):
        copier.write(chunk)
    assert copier.dropped_bytes >= 8 * len(chunk)
    closer = threading.Thread(target=copier.close)
    closer.start()
    closer.join(10)
    assert not closer.is_alive()
    os.close(read_end)
    copier._thread.join(10)
    os.close(write_end)


def test_a_reader_that_has_gone_is_no_error() -> None:
    """The engine goes on."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    copier = Copier(write_end)
    copier.write(b"nobody")
    copier.write(b"nobody")
    copier.close()
    os.close(write_end)
    assert not copier._thread.is_alive()
