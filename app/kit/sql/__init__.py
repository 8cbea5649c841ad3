"""SQL for data that must survive a restart: one database by URL, SQLite or PostgreSQL, its tables and its migrations.

Capabilities declare their tables on `metadata` in their store, and only that store reads or writes them. Times are
stored as the texts of app.kit.clock, which sort.
"""

from sqlalchemy import MetaData

from app.kit.sql.database import Database, note_change
from app.kit.sql.encryption import Sealed, Sealer, new_secret
from app.kit.sql.events import Event, publish

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = MetaData(naming_convention=NAMING)
