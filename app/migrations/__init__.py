"""What Alembic needs, and the database's versions that concern several capabilities or none. Those of one lie in its
own folder `migrations`; all are one line, one file for each, applied in order when the web starts
(app.kit.sql.migrations).

A version that has been released is never changed. Each says how to go forward and how to go back, and names its tables
and columns itself: it must not import the capabilities, which will look different tomorrow.
"""
