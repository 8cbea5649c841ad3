"""One frozen settings object, and the only reader of the environment (MODELMILL_*). One module per subject."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsError

from app.kit.errors import BadInput
from app.kit.text.pydantic_messages import own_sentence
from app.kit.web.state import FromContainer
from app.settings.connections import ExchangeSettings, NotificationSettings
from app.settings.conversion import ConversionSettings
from app.settings.group import GIB, MIB
from app.settings.homes import HomeSettings
from app.settings.server import HostSettings, WebSettings
from app.settings.stores import RetentionSettings, StoreSettings, UploadSettings
from app.settings.training import TrainingSettings
from app.settings.video import ResultSettings, VideoSettings


class Settings(
    NotificationSettings,
    VideoSettings,
    ResultSettings,
    TrainingSettings,
    ExchangeSettings,
    RetentionSettings,
    ConversionSettings,
    HomeSettings,
    UploadSettings,
    StoreSettings,
    WebSettings,
    HostSettings,
):
    """All settings with their defaults. A secret may also be a file: MODELMILL_SECRETS_DIR/modelmill_<name>.

    The documentation lists the groups from last to first, the order in which fields get their values.
    """


CONSEQUENCE = "default_factory_not_called"
"""The kind of a problem of a setting whose default depends on another one, which is not valid."""
HINT = "docs/configuration.md describes every setting."
settings_of = FromContainer[Settings]("settings")
"""Returns the settings of the application that handles a request."""


@lru_cache(maxsize=1)
def load_settings() -> Settings:
    """Returns the settings from the environment, read once per process.

    Raises:
        BadInput: One is not valid; it says which.
    """
    try:
        return Settings(_secrets_dir=os.environ.get("MODELMILL_SECRETS_DIR"))
    except ValidationError as error:
        problems = [_explain(problem) for problem in error.errors() if problem["type"] != CONSEQUENCE]
        raise BadInput("; ".join(problems), hint=HINT) from error
    except SettingsError as error:  # it names the field, and not the environment's variable
        name = str(error).partition('"')[2].partition('"')[0].upper()
        raise BadInput(f"MODELMILL_{name} is not valid JSON", hint=HINT) from error


def _explain(problem: ErrorDetails) -> str:
    """Begins with the name of the variable, unless several do not fit together."""
    variable = f"MODELMILL_{problem['loc'][0]}: ".upper() if problem["loc"] else ""
    return variable + own_sentence(problem["msg"])


def secret_files() -> dict[str, str]:
    """Returns the settings stored as files: variable → value. An environment variable of that name takes precedence."""
    folder = os.environ.get("MODELMILL_SECRETS_DIR")
    files = Path(folder).glob("modelmill_*") if folder else ()
    return {path.name.upper(): path.read_text().strip() for path in files if path.is_file()}
