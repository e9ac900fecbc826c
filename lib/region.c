/* SPDX-License-Identifier: MIT */
/* Ring regions as the daemon makes them. Producers map the same memfd; what they may not do to it
 * (shorten it under a mapping, which would be a SIGBUS for all others) is sealed away before they
 * get it. */
#include "lib/region.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 8u
#endif

/* Allocates, so that the memory is charged here and now. A signal makes the kernel give back what
 * it had begun; then it is asked again. */
static int allocate(struct region *r, u64 at, u64 size)
{
	while (fallocate(r->fd, 0, (off_t)at, (off_t)size) < 0)
		if (errno != EINTR)
			return -errno;
	r->allocated += size;
	return 0;
}

static int make_memfd(const char *name)
{
	char full[200];
	int fd;

	(void)snprintf(full, sizeof(full), "tracer:%s", name);
	fd = memfd_create(full, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(full, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

int region_create(struct region *ret, const char *name, const struct geometry *g, u32 slot,
		  u32 generation, const u32 *rings, u32 n)
{
	_cleanup_(region_close) struct region r = REGION_NULL;
	int error;

	error = geometry_check(g);
	if (error < 0)
		return error;
	r.geometry = *g;
	r.size = geometry_size(g);
	r.fd = make_memfd(name);
	if (r.fd < 0)
		return r.fd;
	if (ftruncate(r.fd, (off_t)r.size) < 0)
		return -errno;
	error = allocate(&r, 0, geometry_data(g));
	if (error < 0)
		return error;
	/* side rings, and pinned ones behind them */
	error = allocate(&r, geometry_ring_at(g, g->n_ring), r.size - geometry_ring_at(g, g->n_ring));
	if (error < 0)
		return error;
	for (u32 i = 0; i < n; i++) {
		error = region_allocate_ring(&r, rings[i]);
		if (error < 0)
			return error;
	}
	r.map = mmap(NULL, r.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, r.fd, 0);
	if (r.map == MAP_FAILED) {
		r.map = NULL;
		return -errno;
	}
	*(struct abi_region *)r.map = (struct abi_region){
	    .magic = ABI_REGION_MAGIC,
	    .major = ABI_MAJOR,
	    .minor = ABI_MINOR,
	    .ring_shift = g->ring_shift,
	    .sub_shift = g->sub_shift,
	    .side_shift = g->side_shift,
	    .side_sub_shift = g->side_sub_shift,
	    .n_ring = g->n_ring,
	    .n_side = g->n_side,
	    .policy = g->policy,
	    .contexts = g->contexts,
	    .slot = slot,
	    .generation = generation,
	    .size = r.size,
	    .pinned_shift = g->pinned_shift,
	    .pinned_sub_shift = g->pinned_sub_shift,
	    .n_pinned = g->n_pinned,
	};
	if (fcntl(r.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	*ret = r;
	r = REGION_NULL;
	return 0;
}

int region_adopt(struct region *ret, int fd, const struct geometry *g, u64 allocated)
{
	const int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	_cleanup_(region_close) struct region r = REGION_NULL;
	struct stat st;
	int seals;

	r.fd = fd;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & wanted) != wanted || seals & ~(wanted | 0x20 /* F_SEAL_EXEC */) ||
	    geometry_check(g) < 0 || fstat(fd, &st) < 0 || (u64)st.st_size != geometry_size(g) ||
	    allocated > (u64)st.st_size)
		return -EBADMSG;
	r.geometry = *g;
	r.size = (u64)st.st_size;
	r.allocated = allocated;
	r.map = mmap(NULL, r.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (r.map == MAP_FAILED) {
		r.map = NULL;
		return -errno;
	}
	*ret = r;
	r = REGION_NULL;
	return 0;
}

int region_allocate_ring(struct region *r, u32 ring)
{
	if (ring >= r->geometry.n_ring)
		return -EINVAL;
	return allocate(r, geometry_ring_at(&r->geometry, ring), 1ull << r->geometry.ring_shift);
}

void region_punch(struct region *r)
{
	if (r->fd < 0)
		return;
	while (fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)r->size) < 0)
		if (errno != EINTR)
			return;
	r->allocated = 0;
}

void region_close(struct region *r)
{
	if (r->map)
		(void)munmap(r->map, r->size);
	(void)close_fd(r->fd);
	*r = REGION_NULL;
}
