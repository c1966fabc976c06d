"""The command line: `relaxjax <command>`, one module a command."""

from .entry import main as main
