"""Speed beside the field's other engines: commands that print medians, ratios, and a last line of JSON."""
