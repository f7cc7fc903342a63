module example.com/b

go 1.26.0

replace example.com/a => ../a
