"""The one chart layer: plain data in, pictures, pages and coloured text out. altair is loaded when
it draws.
"""
