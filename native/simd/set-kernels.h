// Makes each row of native/table.h that is included after this file set its member of `kernels`.

#define KERNEL(result, name, ...) kernels.name = name;
#define ADAPTED KERNEL
