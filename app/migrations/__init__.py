"""Alembic's environment, and the database migrations that concern several capabilities or none. Those of one capability
are in its own folder `migrations`; all form one line, one file each, applied in order when the web server starts
(app.kit.sql.migrations).

A released migration is never changed. Each has both directions, and names its tables and columns itself: it must not
import the capabilities, which will change.
"""
