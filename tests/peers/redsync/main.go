// A program that shares a lock with leasehold, through redsync.
//
// redsync PORT,… NAME: does what each line on stdin says, and answers on stdout.
//
//	acquire TTL_MS       waits for the lock       -> acquired
//	release              lets go                  -> released, or refused if it is not its own
//	add COUNTER ROUNDS   adds 1 so many times, reading and writing under the lock -> added
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// A lock that is held for as long as a busy machine may take for a few requests.
const long = time.Minute

// As good as for ever.
const tries = 1 << 20

var ctx = context.Background()

func main() {
	var clients []*redis.Client
	var pools []redsyncredis.Pool
	for _, port := range strings.Split(os.Args[1], ",") {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		clients = append(clients, client)
		pools = append(pools, goredis.NewPool(client))
	}
	locks, name := redsync.New(pools...), os.Args[2]
	var held *redsync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "acquire":
			ttl := time.Duration(number(words[1])) * time.Millisecond
			held = locks.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(tries))
			must(held.Lock())
			say("acquired")
		case "release":
			if isOwn, err := held.Unlock(); err == nil && isOwn {
				say("released")
			} else {
				say("refused")
			}
		case "add":
			mutex := locks.NewMutex(name, redsync.WithExpiry(long), redsync.WithTries(tries))
			for range number(words[2]) {
				must(mutex.Lock())
				add(clients[0], words[1])
				_, err := mutex.Unlock()
				must(err)
			}
			say("added")
		}
	}
}

func add(client *redis.Client, counter string) {
	inside, err := client.Incr(ctx, counter+":inside").Result()
	must(err)
	if inside != 1 {
		panic(fmt.Sprint(inside, " hold the lock"))
	}
	value, err := client.Get(ctx, counter).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		panic(err)
	}
	must(client.Set(ctx, counter, value+1, 0).Err())
	must(client.Decr(ctx, counter+":inside").Err())
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func say(word string) {
	fmt.Println("@@", word)
}
