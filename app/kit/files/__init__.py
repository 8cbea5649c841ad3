"""Folders and files of this machine."""
