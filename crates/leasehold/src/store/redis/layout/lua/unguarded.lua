local shut_us = 0
