from tests.generated import write

write()
