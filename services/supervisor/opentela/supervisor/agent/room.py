"""Which GPUs a replica gets: neighbours, so that what they say to each other stays near."""

from collections.abc import Container, Sequence

from opentela.core.errors import UsageError


def place(gpus: Sequence[str], held: Container[str], count: int) -> tuple[str, ...]:
    """Return *count* free neighbours among *gpus*.

    Of several places the one in the smallest gap is taken, so that large ones stay; among equals
    one that begins at a multiple of *count*, as links between GPUs are built; then the first.

    Raises:
        UsageError: There is no such place; says what is missing.
    """
    gaps = _gaps(gpus, held)
    places = [
        (len(gap), first % count != 0, first)
        for gap in gaps
        if len(gap) >= count
        for first in range(gap.start, gap.stop - count + 1)
    ]
    if places:
        _, _, first = min(places)
        return tuple(gpus[first : first + count])
    free = [gpus[index] for gap in gaps for index in gap]
    raise UsageError(_missing(len(gpus), free, count))


def _gaps(gpus: Sequence[str], held: Container[str]) -> list[range]:
    gaps = []
    first = 0
    for index in range(len(gpus) + 1):
        if index == len(gpus) or gpus[index] in held:
            if first < index:
                gaps.append(range(first, index))
            first = index + 1
    return gaps


def _missing(all_gpus: int, free: Sequence[str], count: int) -> str:
    if count > all_gpus:
        return f"{count} GPUs are asked for, and the allocation has {all_gpus}"
    if len(free) < count:
        return f"{count} GPUs are asked for, and {len(free)} of {all_gpus} are free"
    return f"{count} GPUs next to each other are asked for, and free are {', '.join(free)}"
