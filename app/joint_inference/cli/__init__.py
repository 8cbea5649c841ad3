"""`modelmill joint …`: apply, list, show, calibrate, drift, delete, demo. Heavy libraries are imported by what needs
them.

A command parses, calls the client and prints; results go to stdout, troubles to stderr.
"""

from app.joint_inference.cli.calibration import calibrate, drift
from app.joint_inference.cli.services import commands, path_of
from app.results.cli import add_result_commands

commands.command()(calibrate)
commands.command()(drift)
add_result_commands(commands, path_of, content="rows")
