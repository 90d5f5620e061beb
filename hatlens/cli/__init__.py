"""The command line: one file a command; `app` puts them together."""
