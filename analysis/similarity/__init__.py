"""In-context learning against fine-tuning: measures of one query, baselines, intervals, claims."""
