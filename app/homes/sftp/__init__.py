"""SFTP access to the data homes."""
