"""What a side may not contain: read off its text, its plan and its binary; nothing runs here."""
