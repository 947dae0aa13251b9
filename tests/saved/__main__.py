from tests.saved import write

write()
