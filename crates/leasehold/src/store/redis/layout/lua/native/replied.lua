-- Replies if nothing is left to do.
if missed == 0 then
  if #KEYS == 1 then return replies[1] end
  return replies
end
