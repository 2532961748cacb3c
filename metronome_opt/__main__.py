"""The `metronome` command: ``python -m metronome_opt``."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from metronome_opt.errors import InputError, MetronomeError, PluginError

_INTERRUPTED = 130
_BAD_INPUT = 2
_MAX_PRINTED = 20  # faults of one document
_PIPE_CLOSED = 141  # as programs end that SIGPIPE kills: the reader has enough, as head


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0: done; 1: no schedule or verification failed; 2: bad input or usage; 130: interrupted;
    141: standard output is no longer read. Any other error is one line on standard error; several
    faults of one document are a line each; a plug-in's comes with a traceback.
    """
    try:
        _interrupt_on_terminate()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a name may hold what it cannot encode
                stream.reconfigure(errors="backslashreplace")
        status = _run(argv)
        sys.stdout.flush()
        return status
    except MetronomeError as error:
        return _fail_with(error)
    except KeyboardInterrupt:
        return _fail(["interrupted"], _INTERRUPTED)
    except MemoryError:
        return _fail(["out of memory; use a smaller instance or coarser slots"], 1)
    except SystemExit:  # how typer leaves when a pipe is closed
        return _PIPE_CLOSED
    except OSError as error:
        if isinstance(error, BrokenPipeError) and error.filename is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _PIPE_CLOSED
        reason = error.strerror or type(error).__name__
        if error.filename is not None:
            return _fail([f"{error.filename}: cannot be used ({reason})"], _BAD_INPUT)
        # What is left in the buffer of a full or closed pipe must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail([f"standard output: cannot be written ({reason})"], _BAD_INPUT)


def _run(argv: list[str] | None) -> int:
    # Importing takes a while; Ctrl-C in the middle of it is to be caught as well.
    import typer

    from metronome_opt.cli.app import app

    usage_error: Any = typer.BadParameter.__base__
    try:
        command = typer.main.get_command(app)
        return int(command.main(args=argv, prog_name="metronome", standalone_mode=False) or 0)
    except usage_error as error:
        where = error.ctx.command_path if error.ctx is not None else "metronome"
        raise InputError(f"{error.format_message().strip()} (see {where} --help)") from None
    except typer.Abort:
        raise KeyboardInterrupt from None


def _fail_with(error: MetronomeError) -> int:
    if isinstance(error, PluginError):
        traceback.print_exception(error.__cause__)
    lines = error.lines[:_MAX_PRINTED]
    more = [error.count_after(_MAX_PRINTED)] if len(error.lines) > _MAX_PRINTED else []
    return _fail([*lines, *more], error.exit_status)


def _fail(lines: Sequence[str], status: int) -> int:
    for line in lines:
        sys.stderr.write(f"metronome: error: {' '.join(line.split())}\n")
    return status


def _interrupt_on_terminate() -> None:
    """Treat SIGTERM as Ctrl-C: the best result is still written."""

    def interrupt(_number: int, frame: Any) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a background job of a script
            signal.default_int_handler(signal.SIGINT, frame)
        signal.raise_signal(signal.SIGINT)

    try:
        signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread: the caller handles signals
        return


if __name__ == "__main__":
    sys.exit(main())
