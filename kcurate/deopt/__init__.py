"""From a fast kernel to the variant without one of its techniques: same function, same signature."""
