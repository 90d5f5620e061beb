"""Classification tasks: templates and label words, examples from files, demonstrations, tokens."""
