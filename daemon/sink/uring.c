/* SPDX-License-Identifier: MIT */
#include "daemon/sink/uring.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "lib/atomic.h"

/* The kernel maps two rings, of requests and of completions, whose positions count up for ever:
 *
 *   we                                        the kernel, in io_uring_enter() or when a write is done
 *     write a request                           load_acquire  submit_tail   (K1)
 *     store_release submit_tail    (S1)         take the requests
 *     load_acquire  complete_tail  (C1)         write a completion
 *     read the completion                       store_release complete_tail (K2)
 *     store_release complete_head  (C2)         load_acquire  complete_head (K3)
 *
 * S1 pairs with K1, K2 with C1: what a position says is there, is written. C2 pairs with K3: a completion is read before its
 * place is used again. Nobody polls the first ring (no IORING_SETUP_SQPOLL), so that all requests are taken inside the call,
 * and one that it did not take can be taken back. */
struct Uring {
	int fd;
	u32 entries, flying;
	u8 *rings; /* both rings are in one mapping */
	size_t rings_size;
	struct io_uring_sqe *requests;
	size_t requests_size;
	u32 *submit_tail, *submit_places;
	u32 submit_mask;
	u32 *complete_head, *complete_tail;
	const struct io_uring_cqe *completions;
	u32 complete_mask;
};

static int enter(Uring *u, u32 submit, u32 wait)
{
	long r = syscall(SYS_io_uring_enter, u->fd, submit, wait, wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);

	return r < 0 ? -errno : (int)r;
}

int uring_new(Uring **ret, u32 entries)
{
	/* rings in one mapping (5.4); completions never dropped (5.5); request memory ours again after the call (5.5) */
	const u32 wanted = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE;
	struct io_uring_params p = {0};
	_cleanup_(uring_freep) Uring *u = calloc(1, sizeof(*u));
	size_t submit_size, complete_size;
	void *map;

	if (!u)
		return -ENOMEM;
	u->fd = (int)syscall(SYS_io_uring_setup, entries, &p); /* close on exec by itself */
	if (u->fd < 0)
		return -errno;
	if ((p.features & wanted) != wanted)
		return -ENOSYS;
	submit_size = p.sq_off.array + p.sq_entries * sizeof(u32);
	complete_size = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	u->rings_size = MAX(submit_size, complete_size);
	map = mmap(NULL, u->rings_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, u->fd,
		   IORING_OFF_SQ_RING);
	if (map == MAP_FAILED)
		return -errno;
	u->rings = map;
	u->requests_size = p.sq_entries * sizeof(struct io_uring_sqe);
	map = mmap(NULL, u->requests_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, u->fd, IORING_OFF_SQES);
	if (map == MAP_FAILED)
		return -errno;
	u->requests = map;
	u->entries = MIN(entries, p.sq_entries);
	u->submit_tail = (u32 *)(u->rings + p.sq_off.tail);
	u->submit_mask = *(u32 *)(u->rings + p.sq_off.ring_mask);
	u->submit_places = (u32 *)(u->rings + p.sq_off.array);
	u->complete_head = (u32 *)(u->rings + p.cq_off.head);
	u->complete_tail = (u32 *)(u->rings + p.cq_off.tail);
	u->complete_mask = *(u32 *)(u->rings + p.cq_off.ring_mask);
	u->completions = (const struct io_uring_cqe *)(u->rings + p.cq_off.cqes);
	*ret = steal_ptr(u);
	return 0;
}

Uring *uring_free(Uring *u)
{
	if (!u)
		return NULL;
	if (u->requests)
		(void)munmap(u->requests, u->requests_size);
	if (u->rings)
		(void)munmap(u->rings, u->rings_size);
	close_fd(u->fd);
	free(u);
	return NULL;
}

int uring_write(Uring *u, int fd, const struct iovec *v, u32 n, u64 offset, void *tag)
{
	/* ours alone: the kernel only reads it */
	u32 tail = *u->submit_tail, place = tail & u->submit_mask;
	int r;

	if (u->flying == u->entries)
		return -EBUSY;
	u->requests[place] = (struct io_uring_sqe){
		.opcode = IORING_OP_WRITEV,
		.fd = fd,
		.addr = (u64)(uintptr_t)v,
		.len = n,
		.off = offset,
		.user_data = (u64)(uintptr_t)tag,
	};
	u->submit_places[place] = place;
	/* S1, pairs with the kernel's load of the same word: the request is written before it counts */
	store_release_u32(u->submit_tail, tail + 1);
	do
		r = enter(u, 1, 0);
	while (r == -EINTR);
	if (r == 1) {
		u->flying++;
		return 0;
	}
	/* taken back: the kernel looks at it only inside the call; release, as every store of this word */
	store_release_u32(u->submit_tail, tail);
	return r < 0 ? r : -EAGAIN;
}

bool uring_reap(Uring *u, bool wait, void **ret_tag, ssize_t *ret_result)
{
	/* ours alone */
	u32 head = *u->complete_head;
	const struct io_uring_cqe *c;

	if (u->flying == 0)
		return false;
	/* C1, pairs with the kernel's release: the completion is written before it counts */
	while (load_acquire_u32(u->complete_tail) == head) {
		int r;

		if (!wait)
			return false;
		r = enter(u, 0, 1);
		/* The memory is the kernel's until the completion is here, whatever the call says. With no help from it
		 * the completion comes all the same, at some entry to the kernel. */
		if (r < 0 && r != -EINTR)
			(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	c = &u->completions[head & u->complete_mask];
	*ret_tag = (void *)(uintptr_t)c->user_data;
	*ret_result = c->res;
	/* C2, pairs with the kernel's acquire: it was read before its place is given back */
	store_release_u32(u->complete_head, head + 1);
	u->flying--;
	return true;
}
