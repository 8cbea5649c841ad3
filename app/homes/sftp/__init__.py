"""SFTP of the data homes: how users get files in and out of them besides the web."""
