"""Slurm by slurmrestd: over TCP with a token, or over a socket file as who we are.

slurmrestd follows an answer of failure by a second one that nobody asked for, so that a strict
client takes neither. One connection for each question, of which the first answer is read, does.
"""

import asyncio
import getpass
import http.client
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

from opentela.core.errors import ConfigError, WireError, in_words
from opentela.supervisor.slurm import numbers, rest_words
from opentela.supervisor.slurm.job import (
    WARNING,
    Job,
    JobSpec,
    SlurmRefusedError,
    SlurmUnavailableError,
)

ANSWER_WITHIN_S: Final = 60.0
_BODY_BYTES_MAX: Final = 256 * 1024 * 1024
"""All jobs of a large cluster, at some kilobytes each."""
_UNIX: Final = "unix:"
_UNAUTHORIZED: Final = 401


class Rest:
    """The port to Slurm through slurmrestd.

    Args:
        url: `http://host:port`, or `unix:/path/of.sock`.
        environ: Where `$SLURM_JWT` and the user's name may stand.
    """

    def __init__(self, url: str, environ: Mapping[str, str]) -> None:
        if not url.startswith(("http://", "https://", _UNIX)):
            raise ConfigError(
                f"--slurm-url {url!r} is not an address of slurmrestd",
                remedy="write it as http://host:port or unix:/path/of.sock",
            )
        self._user = environ.get("SLURM_JWT_USER") or environ.get("USER") or getpass.getuser()
        self._token = environ.get("SLURM_JWT", "")
        self._url = url
        self._prefix = "" if url.startswith(_UNIX) else urlsplit(url).path.rstrip("/")
        self._version = 0

    async def submit(self, spec: JobSpec) -> int:
        """Return the number of the new job."""
        if spec.extra:
            raise ConfigError(
                f"slurmrestd takes no options of sbatch: {' '.join(spec.extra)}",
                remedy="omit --sbatch, or use --via cli",
            )
        body = rest_words.submission(spec, await self._form())
        answer = await self._ask("POST", "job/submit", body=body)
        try:
            return rest_words.read_number(answer)
        except WireError as error:
            raise SlurmUnavailableError(str(error)) from error

    async def jobs(self, *, ids: Sequence[int] = (), name: str = "") -> list[Job]:
        """Return our jobs, the oldest first."""
        paths = [f"job/{number}" for number in ids] or ["jobs"]
        found: list[Job] = []
        for path in paths:
            answer = await self._ask("GET", path, forgives=(numbers.UNKNOWN_JOB,))
            try:
                found += rest_words.read_jobs(answer, user="" if ids else self._user)
            except WireError as error:
                raise SlurmUnavailableError(str(error)) from error
        return [job for job in found if not name or job.name == name]

    async def warn(self, job: int) -> None:
        """Ask what runs in the steps of a job to leave."""
        params = {"signal": WARNING}
        await self._ask("DELETE", f"job/{job}", params=params, forgives=numbers.GONE)

    async def cancel(self, job: int) -> None:
        """End a job."""
        await self._ask("DELETE", f"job/{job}", forgives=numbers.GONE)

    async def start_estimate(self, spec: JobSpec) -> float:  # noqa: ARG002 - the port's form
        """Nobody knows: slurmrestd has no such question."""
        return 0.0

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _form(self) -> int:
        """Return which form of the API the server speaks, asked once."""
        if not self._version:
            try:
                self._version = rest_words.version(await self._fetch("GET", "/openapi/v3"))
            except WireError as error:
                raise SlurmUnavailableError(
                    str(error), remedy="is it slurmrestd that answers at --slurm-url?"
                ) from error
        return self._version

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        params: Mapping[str, str] | None = None,
        forgives: Sequence[int] = (),
    ) -> bytes:
        form = await self._form()
        answer = await self._fetch(method, f"/slurm/v0.0.{form}/{path}", body=body, params=params)
        told = [one for one in rest_words.errors(answer) if one[0] not in forgives]
        if any(number in forgives for number, _ in rest_words.errors(answer)):
            return b"{}"
        if told:
            words = "; ".join(dict.fromkeys(words for _, words in told if words))
            if any(number in numbers.UNREACHABLE for number, _ in told):
                raise SlurmUnavailableError(f"slurmrestd: {words}", remedy="try again later")
            raise SlurmRefusedError(f"slurmrestd: {words}")
        return answer

    async def _fetch(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        if params:
            path = f"{path}?{urlencode(params)}"
        try:
            status, answer = await asyncio.to_thread(self._exchange, method, path, body)
        except (OSError, http.client.HTTPException) as error:
            raise SlurmUnavailableError(
                f"slurmrestd at {self._url}: {in_words(error)}",
                remedy="try again later",
            ) from error
        if status == _UNAUTHORIZED:
            raise SlurmRefusedError(
                "slurmrestd denies access",
                remedy="set SLURM_JWT to a fresh token: scontrol token lifespan=3600",
            )
        return answer

    def _exchange(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Return status and body of the answer, waited for in a thread of its own."""
        headers = {"X-SLURM-USER-NAME": self._user}
        if self._token:
            headers["X-SLURM-USER-TOKEN"] = self._token
        if body:
            headers["Content-Type"] = "application/json"
        connection = self._connection()
        try:
            connection.request(method, self._prefix + path, body=body or None, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_BODY_BYTES_MAX)
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._url.startswith(_UNIX):
            return _SocketFile(Path(self._url.removeprefix(_UNIX)))
        parts = urlsplit(self._url)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        return kind(parts.hostname or "", parts.port, timeout=ANSWER_WITHIN_S)


class _SocketFile(http.client.HTTPConnection):
    """A connection to a socket file."""

    def __init__(self, path: Path) -> None:
        super().__init__("slurmrestd", timeout=ANSWER_WITHIN_S)
        self._path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(ANSWER_WITHIN_S)
        self.sock.connect(str(self._path))
