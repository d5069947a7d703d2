"""A real Slurm for one run of tests: one controller, several node daemons, all on this machine.

Everything lies in one folder and listens on ports that the system gave; nothing of the machine's
own configuration is read. Jobs run as an ordinary user, who sees the machine as it is, except that
our interpreter and our tree are reachable for him even where they lie in a private home.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.e2e.processes import descendants, free_port, is_running, signal_all, wait_until
from tests.slurm import configuration

from opentela.testing import warden

ROOT: Final = Path(__file__).resolve().parents[2]
USER: Final = "nobody"
"""Whoever is on every machine, and owns nothing."""
NODES: Final = ("n1", "n2", "n3")
UP_WITHIN_S: Final = 90.0
DOWN_WITHIN_S: Final = 10.0
_DAEMONS: Final = ("munged", "slurmctld", "slurmd")
_ON_PATH: Final = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def why_not() -> str:
    """Return why no Slurm can be run here; empty when it can."""
    if os.geteuid() != 0:
        return "a Slurm of our own needs root"
    missing = [name for name in _DAEMONS if shutil.which(name, path=_ON_PATH) is None]
    if missing:
        return f"missing commands: {', '.join(missing)} (Debian: slurm-wlm slurmrestd munge)"
    return ""


class Cluster:
    """Controller and nodes, gone at the end whatever happened.

    Attributes:
        folder: Where everything lies; everybody may look into it.
        jobs: A folder in it that belongs to the ordinary user.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{warden.folder_prefix()}slurm-"))
        self.jobs = self.folder / "jobs"
        self.conf = self.folder / "slurm.conf"
        self.environ = {
            **{name: value for name, value in os.environ.items() if not _is_slurms(name)},
            "PATH": _ON_PATH,
            "SLURM_CONF": str(self.conf),
        }
        self._view: subprocess.Popen[bytes] | None = None
        self._rest: list[subprocess.Popen[bytes]] = []
        self._rest_port = 0
        self._socket = self.jobs / "slurmrestd.sock"
        self._is_old = True

    def __enter__(self) -> Self:
        try:
            self._make()
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(self.tails())
        self._end()

    # What tests use

    def argv(self, argv: Sequence[str], *, user: str = USER) -> list[str]:
        """Return *argv* so that it runs as *user*, who can reach our interpreter."""
        assert self._view is not None
        inside = ("nsenter", f"--mount=/proc/{self._view.pid}/ns/mnt", "--wd=/", "--")
        as_user = () if user == "root" else ("runuser", "-u", user, "--")
        return [*inside, *as_user, *argv]

    def run(
        self, *argv: str, user: str = USER, env: Mapping[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as *user* until it ends.

        Raises:
            AssertionError: It failed, and that was not expected; holds what it said.
        """
        done = subprocess.run(
            self.argv(argv, user=user),
            env={**self.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        said = f"{' '.join(argv)}: {done.stdout}{done.stderr}"
        assert not check or done.returncode == 0, said
        return done

    def squeue(self, form: str, *options: str) -> list[str]:
        """Return a line for each job, in the form of squeue's `--format`."""
        return self.run("squeue", "-h", "-a", "-o", form, *options).stdout.splitlines()

    def state(self, job: int) -> str:
        """Return the state of a job as Slurm writes it; empty when it knows none."""
        done = self.run("squeue", "-h", "-a", "-t", "all", "-j", str(job), "-o", "%T", check=False)
        return done.stdout.strip()

    def wait_for_state(self, job: int, *states: str, within_s: float = 60.0) -> None:
        """Return once *job* is in one of *states*."""
        wait_until(
            lambda: self.state(job) in states,
            f"{states} of job {job}",
            within_s=within_s,
            detail=lambda: f"it is {self.state(job)!r}\n{self.tails()}",
        )

    def cancel_all(self) -> None:
        """End every job, and wait until it has."""
        self.run("sh", "-c", "squeue -h -o %A | xargs -r scancel", user="root", check=False)
        # Who ignores SIGTERM is given KillWait; tests need not wait for it.
        self.run(
            *("sh", "-c", "sleep 0.3; squeue -h -o %A | xargs -r scancel --full -s KILL"),
            user="root",
            check=False,
        )
        wait_until(
            lambda: not self.run("squeue", "-h", user="root").stdout.strip(),
            "the end of all jobs",
            within_s=UP_WITHIN_S,
            detail=self.tails,
        )

    def processes(self, **variables: str) -> list[int]:
        """Return processes of this Slurm's jobs whose environment holds *variables*."""
        wanted = [f"{name}={value}" for name, value in variables.items()]
        return [pid for pid, environ in self._ours() if all(one in environ for one in wanted)]

    def fail_node(self, node: str) -> list[int]:
        """End everything on *node* at once, as a power cut would; return what was ended."""
        daemon = self._pid(f"slurmd-{node}.pid")
        pids = set(self.processes(SLURMD_NODENAME=node)) | {daemon} - {0}
        # The daemon of each step is above its tasks; below init, there is nothing else of ours.
        for pid in tuple(pids):
            pids |= set(self._steps_above(pid)) | set(descendants(pid))
        signal_all(sorted(pids), signal.SIGKILL)
        return sorted(pids)

    def revive_node(self, node: str) -> None:
        """Start a node's daemon again."""
        self._slurmd(node)

    def wait_for_nodes(self, state: str, nodes: Iterable[str] = NODES) -> None:
        """Return once every one of *nodes* is in *state*."""
        wanted = sorted(f"{node} {state}" for node in nodes)

        def is_so() -> bool:
            said = self.run(
                *("sinfo", "-h", "-N", "-o", "%N %t", "-n", ",".join(nodes)),
                user="root",
                check=False,
            )
            return sorted(set(said.stdout.splitlines())) == wanted

        wait_until(is_so, f"nodes {state}", within_s=UP_WITHIN_S, detail=self.tails)

    def rest(self, *, by_socket: bool = False) -> tuple[str, dict[str, str]]:
        """Return the address of a slurmrestd and the environment to ask it in, as root.

        It is started when first asked for, and ends with the cluster.
        """
        if not self._rest:
            self._start_rest()
        token = self.run("scontrol", "token", "lifespan=3600", "username=root", user="root").stdout
        jwt = token.strip().partition("=")[2]
        url = f"unix:{self._socket}" if by_socket else f"http://127.0.0.1:{self._rest_port}"
        return url, {**self.environ, "USER": "root", "SLURM_JWT": jwt}

    def tails(self) -> str:
        """Return the end of each log."""
        logs = sorted((self.folder / "log").glob("*.log")) + sorted(self.jobs.rglob("*.out"))
        return "\n".join(
            f"--- {log}\n{log.read_bytes()[-1_000:].decode(errors='replace')}" for log in logs
        )

    # Making it

    def _make(self) -> None:
        self.folder.chmod(0o755)
        for name in ("state", "log", "dev"):
            (self.folder / name).mkdir()
        self.jobs.mkdir()
        shutil.chown(self.jobs, USER)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        secret = self.folder / "state" / "jwt_hs256.key"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)
        for index in (0, 1):
            # What Slurm believes to be a GPU: a second /dev/null.
            os.mknod(self.folder / "dev" / f"nvidia{index}", 0o020666, os.makedev(1, 3))
        version = subprocess.run(
            ["slurmctld", "-V"], env=self.environ, capture_output=True, text=True, check=True
        ).stdout.split()[-1]
        self._is_old = int(version.partition(".")[0]) < 23
        self.conf.write_text(configuration.text(self.folder, NODES, is_old=self._is_old))
        gres = f"NodeName={_range(NODES)} Name=gpu Type=h200 File={self.folder}/dev/nvidia[0-1]\n"
        (self.folder / "gres.conf").write_text(gres)
        if not self._is_old:
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")

    def _start(self) -> None:
        self._view = _private_view(self.folder)
        log = self.folder / "log"
        self.run(
            *("munged", f"--key-file={self.folder}/munge.key", "--force"),
            *(f"--socket={self.folder}/munge.sock", f"--pid-file={self.folder}/munged.pid"),
            *(f"--log-file={log}/munged.log", f"--seed-file={self.folder}/munge.seed"),
            user="root",
        )
        self.run("slurmctld", "-i", "-f", str(self.conf), user="root")
        for node in NODES:
            self._slurmd(node)
        self.wait_for_nodes("idle")

    def _start_rest(self) -> None:
        """Start a slurmrestd; it refuses to run as root or as Slurm itself."""
        self._rest_port = free_port()
        # Old releases offer what needs slurmdbd, which we have not, unless told what to offer.
        offers = "openapi/v0.0.38" if self._is_old else "slurmctld"
        argv = ["slurmrestd", "-s", offers, "-a", "rest_auth/jwt", f"unix:{self._socket}"]
        argv.append(f"127.0.0.1:{self._rest_port}")
        with (self.folder / "log" / "slurmrestd.log").open("ab") as log:
            process = subprocess.Popen(
                self.argv(argv),
                env={**self.environ, "SLURM_JWT": "daemon"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._rest.append(process)
        wait_until(self._rest_listens, "slurmrestd", within_s=UP_WITHIN_S, detail=self.tails)

    def _rest_listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._rest_port)) == 0

    def _slurmd(self, node: str) -> None:
        self.run("slurmd", "-N", node, "-f", str(self.conf), user="root")

    # Ending it

    def _end(self) -> None:
        for rest in self._rest:
            signal_all(descendants(rest.pid), signal.SIGTERM)
        daemons = [self._pid(f"slurmd-{node}.pid") for node in NODES]
        daemons += [self._pid("slurmctld.pid"), self._pid("munged.pid")]
        daemons = [pid for pid in daemons if pid]
        with contextlib.suppress(Exception):
            self.cancel_all()
        signal_all(daemons, signal.SIGTERM)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not any(map(is_running, daemons)), "ends", within_s=DOWN_WITHIN_S)
        # Jobs of a node that failed have nobody else to end them.
        left = [pid for pid, _ in self._ours()]
        signal_all([*left, *filter(is_running, daemons)], signal.SIGKILL)
        for one in (*self._rest, *([self._view] if self._view else [])):
            one.kill()
            one.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _pid(self, name: str) -> int:
        try:
            return int((self.folder / name).read_text())
        except (OSError, ValueError):
            return 0

    def _ours(self) -> Iterator[tuple[int, set[str]]]:
        """Yield each process that was started under our configuration, and its environment."""
        mark = f"SLURM_CONF={self.conf}"
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                environ = set((entry / "environ").read_bytes().decode(errors="replace").split("\0"))
                if mark in environ and "SLURM_JOB_ID" in "\n".join(environ):
                    yield int(entry.name), environ

    @staticmethod
    def _steps_above(pid: int) -> Iterator[int]:
        while pid > 1:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                return
            if command.startswith(b"slurmstepd"):
                yield pid
            pid = int(fields[1])


def _is_slurms(name: str) -> bool:
    return name.startswith(("SLURM", "SBATCH_", "SRUN_", "SQUEUE_", "SCANCEL_"))


def _range(nodes: Sequence[str]) -> str:
    return ",".join(nodes)


def _private_view(folder: Path) -> subprocess.Popen[bytes]:
    """Return a process in whose mount namespace an ordinary user can reach what we run."""
    lines = ["set -e"]
    needed = [Path(sys.base_prefix), Path(sys.prefix), ROOT]
    for blocked in sorted({one for path in needed if (one := _blocked(path))}):
        inside = [path for path in needed if path.is_relative_to(blocked)]
        for index, path in enumerate(inside):
            kept = folder / "view" / f"{blocked.name}-{index}"
            lines += [f"mkdir -p '{kept}'", f"mount --bind '{path}' '{kept}'"]
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs '{blocked}'")
        for index, path in enumerate(inside):
            kept = folder / "view" / f"{blocked.name}-{index}"
            lines += [f"mkdir -p '{path}'", f"mount --bind '{kept}' '{path}'"]
    lines += ["echo made", "exec sleep infinity"]
    process = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"made\n", "no mount namespace"
    return process


def _blocked(path: Path) -> Path | None:
    """Return the topmost folder above *path* that others may not enter; None when there is none."""
    above = [one for one in (path, *path.parents) if not one.stat().st_mode & 0o001]
    return above[-1] if above else None
