"""Check that every pinned dependency installs from a wheel on each platform that we support.

Login nodes and GH200 compute nodes (aarch64) often have no compiler: a source build is a failed
installation there. Nothing is installed; run it after changing constraints.txt.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

CONSTRAINTS = Path(__file__).resolve().parents[1] / "constraints.txt"
PYTHON = "3.11"
GLIBC_MINORS = (17, 24, 27, 28, 31, 34, 35)
"""manylinux tags up to the glibc of RHEL 9 and Ubuntu 22.04, which the sites have."""
MACHINES = ("x86_64", "aarch64")


def main() -> int:
    """Return 0 when every package has a wheel for every machine; name those that have not."""
    packages = [
        line.strip()
        for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    failed = 0
    for machine in MACHINES:
        lacking = _lacking(packages, machine)
        failed += len(lacking)
        held = len(packages) - len(lacking)
        sys.stdout.write(f"{machine}: {held} of {len(packages)} packages have a wheel\n")
        for package, reason in lacking:
            sys.stdout.write(f"  {package}: {reason}\n")
    return 1 if failed else 0


def _lacking(packages: list[str], machine: str) -> list[tuple[str, str]]:
    if not _reason(packages, machine):
        return []
    return [(one, reason) for one in packages if (reason := _reason([one], machine))]


def _reason(packages: list[str], machine: str) -> str:
    """Return why pip would not install *packages* from wheels alone; empty when it would."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in GLIBC_MINORS]
    tags += [f"manylinux2014_{machine}", f"manylinux1_{machine}", "any"]
    with tempfile.TemporaryDirectory() as target:
        done = subprocess.run(  # noqa: S603 - pip of this very Python
            [
                *(sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-deps"),
                *("--ignore-installed", "--only-binary=:all:", "--target", target),
                *("--python-version", PYTHON, "--implementation", "cp"),
                *(part for tag in tags for part in ("--platform", tag)),
                *packages,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    if not done.returncode:
        return ""
    return next(
        (line for line in done.stderr.splitlines() if line.startswith("ERROR")), done.stderr[-200:]
    )


if __name__ == "__main__":
    sys.exit(main())
