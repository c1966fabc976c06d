"""What programs are built for, where TVM has it."""


def Target(target: str) -> str:
    """The name of a target, which `build` and `compile` take as it is."""
    if not isinstance(target, str):
        raise TypeError(
            f'`Target` takes the name of a target, found {target!r}: write `Target("llvm")`'
        )
    return target
