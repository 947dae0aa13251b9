import sys

from tests.pictures import draw

draw(*sys.argv[1:])
