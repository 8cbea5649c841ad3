"""`modelmill train …`: submit, list, show, logs, cancel, cluster, simulate. What needs heavy libraries imports them.

A command parses, calls the client and prints; results go to stdout, troubles to stderr.
"""

from app.training.cli import models
from app.training.cli.environments import commands as environments
from app.training.cli.simulation import simulate
from app.training.cli.sweeps import commands as sweeps
from app.training.cli.tasks import commands

commands.add_typer(sweeps, name="sweep")
commands.add_typer(environments, name="environment")
for command in (models.checkpoints, models.export, models.convert, models.register, simulate):
    commands.command()(command)
