package source

func start(f func()) {
	go f()
	go f()
}
