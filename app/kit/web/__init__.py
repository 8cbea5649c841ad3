"""Shared web code of every capability."""

from starlette.convertors import IntegerConvertor, register_url_convertor


class ShortNumbers(IntegerConvertor):
    """`{name:int}` in the paths of routes: numbers that a column of a database holds. Starlette's own takes any length,
    and Python refuses to read more than 4300 digits, so that the answer would be 500."""

    regex = "[0-9]{1,9}"


register_url_convertor("int", ShortNumbers())
