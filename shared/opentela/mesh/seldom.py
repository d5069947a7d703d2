"""What others can make happen as often as they like is counted always, and logged seldom."""

import time
from typing import Final

LOG_EVERY_S: Final = 10.0
"""At most this often: enough to see that it goes on, too little to fill a disk."""


class Seldom:
    """Says of each occurrence whether it is to be logged."""

    def __init__(self) -> None:
        self._not_before = 0.0

    def now(self) -> bool:
        """Return whether enough time has passed since this last returned True."""
        now = time.monotonic()
        if now < self._not_before:
            return False
        self._not_before = now + LOG_EVERY_S
        return True
