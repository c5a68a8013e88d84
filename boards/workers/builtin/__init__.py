"""Python workers that ship with the product. Each module registers its own with `@worker`."""
