"""Claims on what pretrained models do in context: one file a claim's test."""
