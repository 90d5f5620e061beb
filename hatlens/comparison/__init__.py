"""In-context learning against fine-tuning: settings, runs, conclusions, tables."""
