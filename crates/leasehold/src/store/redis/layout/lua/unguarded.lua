-- In place of `guard`, for a server without a quarantine: KEYS and ARGV are those of the script.
local shut_us = 0
