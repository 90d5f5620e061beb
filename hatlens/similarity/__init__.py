"""`hatlens similarity`: in-context learning against fine-tuning on the same demonstrations."""
