"""Work on several processes or machines: tasks that read files and write files (`cluster`), the same commands
over parts of many files (`parts`), and n-grams counted in ranges and merged (`counting`).
"""
