package dashboard

// showHome serves GET /{mode}/.
func (s *server) showHome(v visit) (answer, error) { return show("home", "Home", nil) }
