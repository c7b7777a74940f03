
hot:     file format elf64-x86-64


Disassembly of section .text:

0000000000001159 <vec_dot>:
    1159:	test   %edx,%edx
    115b:	jle    1195 <vec_dot+0x3c>
    115d:	movslq %edx,%rdx
    1160:	shl    $0x2,%rdx
    1164:	mov    $0x0,%eax
    1169:	pxor   %xmm1,%xmm1
    116d:	pxor   %xmm0,%xmm0
    1171:	cvtss2sd (%rdi,%rax,1),%xmm0
    1176:	pxor   %xmm2,%xmm2
    117a:	cvtss2sd (%rsi,%rax,1),%xmm2
    117f:	mulsd  %xmm2,%xmm0
    1183:	addsd  %xmm0,%xmm1
    1187:	add    $0x4,%rax
    118b:	cmp    %rdx,%rax
    118e:	jne    116d <vec_dot+0x14>
    1190:	movapd %xmm1,%xmm0
    1194:	ret
    1195:	pxor   %xmm1,%xmm1
    1199:	jmp    1190 <vec_dot+0x37>
