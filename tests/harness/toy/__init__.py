"""A capability that the product does not have, as small as one can be: toys are counted."""

MIGRATIONS = "TOY_MIGRATIONS"
"""Variable with the folder of its versions, whose first follows whatever is the newest today."""
