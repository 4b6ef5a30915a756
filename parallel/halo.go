package parallel

type Halo struct{}
