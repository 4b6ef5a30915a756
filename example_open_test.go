package weft_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// Open makes a NIC inside this program. If the address has port 0, the system chooses a port.
// NIC.Addr returns the address, and other programs set it in Config.Nodes.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	_, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "Not A Name"}})
	fmt.Println("a bad argument:", errors.Is(err, weft.ErrBadArgument))

	p, err := weft.Open(ctx, weft.Config{
		Name: weft.Name{App: "reader", Index: 3},
		Link: weft.UDP("127.0.0.1:0"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	fmt.Println("opened", p.Name())
	// Output:
	// a bad argument: true
	// opened reader/3
}

// A second process on the NIC of the first process shares its link. A name has one owner at a
// time.
func ExampleNIC_Attach() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	nic, err := weft.OpenNIC(ctx, weft.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer nic.Close()
	for range 2 {
		p, err := nic.Attach(ctx, weft.Name{App: "reader"})
		if errors.Is(err, weft.ErrNameTaken) {
			fmt.Println("the name is taken")
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("attached", p.Name())
	}
	// Output:
	// attached reader/0
	// the name is taken
}
