/* SPDX-License-Identifier: MIT */
/* The executable's path comes from the kernel, its build id from its own notes, which are in memory already: no file is
 * opened. Where the program headers are is the kernel's word as well; a note is looked at only where they say that it was loaded. */
#include "lib/program.h"

#include <elf.h>
#include <link.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#define NOTE_BUILD_ID 3 /* NT_GNU_BUILD_ID, which older headers lack */

u32 program_exe(char *ret, u32 room)
{
	/* the bare call: libc's own may be somebody's that records */
	long n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", ret, room);

	return n < 0 ? 0 : (u32)n;
}

/* Of one segment of notes. */
static u32 find_build_id(const u8 *p, u64 left, u64 align, u8 *ret, u32 room)
{
	while (left >= sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) n;
		u64 name, total;

		memcpy(&n, p, sizeof(n));
		name = sizeof(n) + ALIGN_UP((u64)n.n_namesz, align);
		total = name + ALIGN_UP((u64)n.n_descsz, align);
		/* the last one may lack its padding */
		if (name > left || n.n_descsz > left - name)
			return 0;
		if (n.n_type == NOTE_BUILD_ID && n.n_namesz == 4 && !memcmp(p + sizeof(n), "GNU", 4)) {
			if (n.n_descsz > room)
				return 0;
			memcpy(ret, p + name, n.n_descsz);
			return n.n_descsz;
		}
		if (total >= left)
			return 0;
		p += total;
		left -= total;
	}
	return 0;
}

u32 program_build_id(u8 *ret, u32 room)
{
	const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	size_t n_headers = getauxval(AT_PHNUM);
	uintptr_t base = 0;

	if (!headers || getauxval(AT_PHENT) != sizeof(*headers))
		return 0;
	for (size_t i = 0; i < n_headers; i++)
		if (headers[i].p_type == PT_PHDR)
			base = (uintptr_t)headers - headers[i].p_vaddr;
	for (size_t i = 0; i < n_headers; i++) {
		const ElfW(Phdr) *note = &headers[i];
		bool loaded = false;
		u32 n;

		if (note->p_type != PT_NOTE)
			continue;
		for (size_t k = 0; k < n_headers && !loaded; k++) {
			const ElfW(Phdr) *load = &headers[k];

			loaded = load->p_type == PT_LOAD && load->p_flags & PF_R && note->p_vaddr >= load->p_vaddr &&
				 note->p_filesz <= load->p_filesz &&
				 note->p_vaddr - load->p_vaddr <= load->p_filesz - note->p_filesz;
		}
		n = loaded ? find_build_id((const u8 *)base + note->p_vaddr, note->p_filesz,
					   note->p_align == 8 ? 8 : 4, ret, room) :
			     0;
		if (n)
			return n;
	}
	return 0;
}
