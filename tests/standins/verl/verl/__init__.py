"""As verl's own: modules that a task names are imported with it, in every process."""

import importlib
import os

for _name in filter(None, os.getenv("VERL_USE_EXTERNAL_MODULES", "").split(",")):
    importlib.import_module(_name)
