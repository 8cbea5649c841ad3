"""`modelmill video …`: jobs, stages, plans, profiles. Heavy libraries are imported by what needs them.

A command parses, calls the client and prints; results go to stdout, troubles to stderr.
"""

from __future__ import annotations

from app.results.cli import add_result_commands
from app.video.cli import job_commands as _jobs
from app.video.cli import job_set_commands as _sets
from app.video.cli import plan_commands as _plans  # adds its commands
from app.video.cli import recording_commands as _recordings
from app.video.cli import resource_commands as _resources
from app.video.cli.command_group import commands, path_of
from app.video.cli.demo import demo, pseudo

add_result_commands(commands, path_of, content="events")

commands.command("demo")(demo)
commands.command("pseudo")(pseudo)
