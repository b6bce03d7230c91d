-- Whether the server has forgotten nothing, or nothing counts any more of what it may have forgotten.
c.now_us >= (SELECT grants_from_us FROM leasehold.boot WHERE one AND made_in = tableoid)
