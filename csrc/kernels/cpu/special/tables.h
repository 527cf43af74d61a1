// Chebyshev series, lowest order first; made by scripts/fit_special.py.
#pragma once

namespace mt::cpu::special::tables {

// (1 + 2x) exp(x^2) erfc(x), x = 0 .. infinity, u = (x - 3.75) / (x + 3.75)
inline constexpr double erfcx[] = {
    0x1.2d75d0246cee8p+0,   -0x1.2cd0564f8c1b7p-8,  -0x1.59159e8868995p-4,  0x1.e50c3e7c7dccep-5,
    -0x1.b4c68f4569326p-6,  0x1.295e991a7d82dp-7,   -0x1.3c4c54f8d419dp-9,  0x1.014ed1572209ap-11,
    -0x1.221e6f70130b5p-14, 0x1.15c3f597f0492p-18,  0x1.9f8f03ca86fc1p-21,  -0x1.d601c320c8f9cp-23,
    0x1.71e1efca86cf9p-27,  0x1.36bf2885524c9p-28,  -0x1.aa4d7b1cdf20ap-31, -0x1.15df59ca6082bp-34,
    0x1.f8af0a9aa6d31p-36,  0x1.b61b723941781p-43,  -0x1.0fc16c00b50f2p-40, 0x1.24f6a772cbc36p-45,
    0x1.2d8b49ab5f72bp-45,  -0x1.0cb63a80de2c5p-49, -0x1.6884628ace07ap-50, 0x1.561b105822235p-54,
    0x1.d3744857e262bp-55};
// erfinv(y) / y, y = 0 .. 1/2, u = 8 y^2 - 1
inline constexpr double erfinv_near[] = {
    0x1.d6633410cc88cp-1,  0x1.148cdd452daabp-5,  0x1.5a34f3552cedfp-10, 0x1.0c9b40cecf622p-14, 0x1.cddf262f3bdfbp-19,
    0x1.a5c04ce5f9e3ap-23, 0x1.90ab2c3900b2ep-27, 0x1.877289ec9bf2cp-31, 0x1.867de9a2d50e5p-35, 0x1.8bdd944106712p-39,
    0x1.967e639258e6dp-43, 0x1.a5cae1cf98f60p-47, 0x1.b97b689b55451p-51, 0x1.d17c7b07ac5f5p-55};
// x with erfc(x) = exp(-t^2), t = 0.8 .. 3, u = (t - 1.9) / 1.1
inline constexpr double erfinv_far[] = {
    0x1.91f362a81ddc0p+0,   0x1.23d6a0c9c9491p+0,   0x1.1c793ada55a3dp-7,   -0x1.6ac1f2ccda8a3p-8,
    0x1.fc505cc400977p-10,  -0x1.1edfd8d8460a4p-11, 0x1.15e20b5d25df2p-13,  -0x1.cb0b81204cae8p-16,
    0x1.2a6f1c953a6adp-18,  -0x1.8a5c24e027096p-22, -0x1.b24cac33c0ecdp-24, 0x1.2047209eda236p-24,
    -0x1.9875b88e9eeb3p-26, 0x1.bdac5543b2db2p-28,  -0x1.86279a7e920ffp-30, 0x1.f1ee2274fcc21p-33,
    -0x1.724ded42cb1e1p-37, -0x1.6729679a17b24p-37, 0x1.7e6b77723e19ap-38,  -0x1.02507c55820f7p-39,
    0x1.115b37d8bd504p-41,  -0x1.c7db5fb57d3c6p-44, 0x1.f75658f78ae0fp-47,  0x1.044aca3f1f175p-51,
    -0x1.55ced9521ab6dp-50, 0x1.3070f8ab0e4f0p-51,  -0x1.7fbdc437b1d9ap-53, 0x1.7fa0026afb091p-55};
// the same, t = 3 .. 9, u = (t - 6) / 3
inline constexpr double erfinv_farther[] = {
    0x1.729eb5fff249ap+2,   0x1.882411936d450p+1,   -0x1.5bd8f4abcd879p-7, 0x1.c16e90fcbc073p-10,
    -0x1.f2770f937875cp-13, 0x1.2bed4d8e0f18ap-16,  0x1.48c1fb2e811d9p-18, -0x1.c4b9e58509399p-19,
    0x1.6742932812b03p-20,  -0x1.e15386c7644dap-22, 0x1.28247ecb51319p-23, -0x1.59b956c71c8b7p-25,
    0x1.84f3b6002db44p-27,  -0x1.a9529aa004331p-29, 0x1.c653e6d452d13p-31, -0x1.db7ce791c2411p-33,
    0x1.e86122c75a5e8p-35,  -0x1.eca808b58fb55p-37, 0x1.e811dff10eb8dp-39, -0x1.da7c19ae85957p-41,
    0x1.c3e520ffc8d6ap-43,  -0x1.a46fa5e5732ffp-45, 0x1.7c65596a97563p-47, -0x1.4c3908aa39e47p-49,
    0x1.14880090fc233p-51,  -0x1.ac35456e96877p-54};
// the same, t = 9 .. 28, u = (t - 18.5) / 9.5
inline constexpr double erfinv_farthest[] = {
    0x1.265ab64da290ep+4,   0x1.3149de24c67a2p+3,   -0x1.21482ad3c582dp-7,  0x1.085b9aca19e62p-9,
    -0x1.ece585fe7f862p-12, 0x1.d03572d1283a3p-14,  -0x1.b721d99ccbba4p-16, 0x1.9f8ba602ea98dp-18,
    -0x1.87fe293c298eap-20, 0x1.6f5c8152fffcep-22,  -0x1.54b87e7e4917fp-24, 0x1.373c234f1ce85p-26,
    -0x1.161c4f188c33fp-28, 0x1.e120859f77e80p-31,  -0x1.8b97bcdef8891p-33, 0x1.29f6edfee16acp-35,
    -0x1.75029569f8359p-38, 0x1.dafb111a27a33p-42,  0x1.559500899f3d8p-43,  -0x1.f3cbdfc552022p-44,
    0x1.b462611ef2aafp-45,  -0x1.43a1f40f064e6p-46, 0x1.ba904412b3480p-48,  -0x1.202f764a53614p-49,
    0x1.6b44f1e07e0e9p-51,  -0x1.bf53cb2c38f7fp-53};
// exp(-x) I0(x), x = 0 .. 8, u = x / 4 - 1
inline constexpr double i0_small[] = {
    0x1.5a84e9035a22ap-2,  -0x1.37febc057cd8dp-2,  0x1.5f7ac77ac88c0p-3,  -0x1.84b70342d06eap-4,
    0x1.93e8acea8a32dp-5,  -0x1.84e9ef121b6f0p-6,  0x1.59961f3dde3ddp-7,  -0x1.1b65e201aa849p-8,
    0x1.adc758a12100ep-10, -0x1.2e2fd1f15eb52p-11, 0x1.8b51b74107cabp-13, -0x1.e2b2659c41d5ap-15,
    0x1.13f58be9a2859p-16, -0x1.2866fcba56427p-18, 0x1.2bf24978cf4acp-20, -0x1.1ec638f227f8dp-22,
    0x1.03b769d4d6435p-24, -0x1.beaf68c0b30abp-27, 0x1.6d903a454cb34p-29, -0x1.1d4fe13ae9556p-31,
    0x1.a98becc743c10p-34, -0x1.2fc957a946abcp-36, 0x1.9fe2fe19bd324p-39, -0x1.1164c62ee1af0p-41,
    0x1.59b464b262627p-44, -0x1.a5022c297fbebp-47, 0x1.ee6d893f65ebap-50, -0x1.184eb721ebbb4p-52,
    0x1.33362977da589p-55, -0x1.45cb72134d0efp-58};
// exp(-x) I1(x) / x, x = 0 .. 8, u = x / 4 - 1
inline constexpr double i1_small[] = {
    0x1.02a63724a7ffap-3,  -0x1.694d10469192ep-3,  0x1.a46dad536f53cp-4,  -0x1.b1bbc537c9ebcp-5,
    0x1.951e3e7bb2349p-6,  -0x1.5a29f7913a26ap-7,  0x1.1065349d3a1b4p-8,  -0x1.8cc620b3cd4a4p-10,
    0x1.0c95db6c6df7dp-11, -0x1.533cad3d694fep-13, 0x1.911b542c70d0bp-15, -0x1.bd5f9b8debbcfp-17,
    0x1.d1c4ed511afc5p-19, -0x1.cc0798363992ap-21, 0x1.ae344b347d108p-23, -0x1.7dd3e24b8c3e8p-25,
    0x1.4258e02395010p-27, -0x1.0361b28ea67e6p-29, 0x1.8ea34b43fdf6cp-32, -0x1.2510397eb07dep-34,
    0x1.9cee2b21d3154p-37, -0x1.173835fb70366p-39, 0x1.6af784779d955p-42, -0x1.c628e1c8f0b3bp-45,
    0x1.11d7f0615290cp-47, -0x1.3eaaa7e0d1573p-50, 0x1.663e3e593bfacp-53, -0x1.857d0c38a0576p-56,
    0x1.99f2a0c3c4014p-59};
// exp(-x) sqrt(x) I0(x), x = 8 .. infinity, u = 16 / x - 1
inline constexpr double i0_large[] = {
    0x1.9be62aca809cbp-2,   0x1.b998ca2e59049p-9,   0x1.20fa378999e52p-14,  0x1.8412bc101c586p-19,
    0x1.b8007d9cd616ep-23,  0x1.8569280d6d56dp-26,  0x1.d2c64a9225b87p-29,  0x1.0f9ccc0f46f75p-31,
    0x1.a24feabe8004fp-37,  -0x1.1511d08397425p-35, -0x1.d0fd7357e7bf2p-37, -0x1.f904303178d66p-40,
    0x1.94347fa268cecp-41,  0x1.b1c8c6b83c073p-42,  0x1.156ff0d5fc545p-46,  -0x1.75d99cf68bb32p-45,
    -0x1.583fe7e65629ap-47, 0x1.12a919094e6d7p-48,  0x1.fee7da3eafb1fp-50,  -0x1.8aee7d908de38p-52,
    -0x1.4600babd21fe4p-52, 0x1.3f3dd076041cdp-55,  0x1.9be1812d98421p-55,  -0x1.646da66119130p-58,
    -0x1.0adb754ca8b19p-57};
// exp(-x) sqrt(x) I1(x), x = 8 .. infinity, u = 16 / x - 1
inline constexpr double i1_large[] = {
    0x1.8ea18b55b1514p-2,   -0x1.3fda053fcdb4cp-7,  -0x1.cfd7f804aa9a6p-14, -0x1.048df49ca0373p-18,
    -0x1.0dbfd2e9e5443p-22, -0x1.c415394bb46c1p-26, -0x1.0790b9ad53528p-28, -0x1.334ca5423dd80p-31,
    -0x1.4dcf9d4504c0cp-36, 0x1.1e1a1f1587865p-35,  0x1.f101f653c457bp-37,  0x1.1e7d3f6439fa3p-39,
    -0x1.953e1076ab493p-41, -0x1.cbc458e73e255p-42, -0x1.7a9482e6d22a0p-46, 0x1.80d3c26b3281ep-45,
    0x1.776e1762d31e8p-47,  -0x1.12db5138afbc7p-48, -0x1.0efcd8bc4d22ap-49, 0x1.7d68e5f04a2d1p-52,
    0x1.55915fceb588ap-52,  -0x1.2806c9c773320p-55, -0x1.acea3b2532277p-55, 0x1.45b8aea87b950p-58,
    0x1.1556db352e8e6p-57};
// K0(x) + log(x / 2) I0(x), x = 0 .. 2, u = x^2 / 2 - 1
inline constexpr double k0_small[] = {
    -0x1.12166e9d2f61fp-2, 0x1.608d881213db9p-2,  0x1.26bf6554a9085p-5,  0x1.4b82e75633d73p-10, 0x1.7f900fe8cfca0p-16,
    0x1.102bce7f95efcp-22, 0x1.05c1367e58a13p-29, 0x1.6c25c475120bep-37, 0x1.7fb0ac384a073p-45, 0x1.3cee1e6b887dcp-53};
// x (K1(x) - log(x / 2) I1(x)), x = 0 .. 2, u = x^2 / 2 - 1
inline constexpr double k1_small[] = {0x1.867a1361008cap-1,   -0x1.69a1b757b0dd4p-2,  -0x1.f637243c1db74p-4,
                                      -0x1.c92939d7d4192p-8,  -0x1.6ade2e5a3bd02p-13, -0x1.469b32c832e3ap-19,
                                      -0x1.7c41d145c31d0p-26, -0x1.3663bb84626cap-33, -0x1.77502ddd0e045p-41,
                                      -0x1.5dd517a0399e0p-49, -0x1.032283d3cda56p-57};
// exp(x) sqrt(x) K0(x), x = 2 .. infinity, u = 4 / x - 1
inline constexpr double k0_large[] = {
    0x1.385bd9f4e6907p+0,  -0x1.019f72d4ff71ep-5,  0x1.9b891fca79342p-10, -0x1.0d797e7889f42p-13,
    0x1.d413fcc7470a9p-17, -0x1.ebb547f18d3a9p-20, 0x1.2915981e3e46fp-22, -0x1.905541b54f2afp-25,
    0x1.269a0033f428ep-27, -0x1.d29d5f22bf5e2p-30, 0x1.8956c819ff63dp-32, -0x1.5df95d2e7ca15p-34,
    0x1.46808475fbf4dp-36, -0x1.3dafc3f00540bp-38, 0x1.40fa32fcce645p-40, -0x1.4f87721a3b2dbp-42,
    0x1.69c4ecd913e48p-44, -0x1.9145ebaf9922fp-46, 0x1.c8d9c4a6808e8p-48, -0x1.0a690ed1130d0p-49,
    0x1.3dbf96cd7929dp-51, -0x1.82f947bd75936p-53, 0x1.e092e5c062a6ap-55, -0x1.2feccb331b557p-56};
// exp(x) sqrt(x) K1(x), x = 2 .. infinity, u = 4 / x - 1
inline constexpr double k1_large[] = {
    0x1.5c3d7aa062c8ap+0,   0x1.a9abef9e023fbp-4,  -0x1.76946be66b48ap-9,  0x1.9965888f6908ep-13,
    -0x1.44d711dcdb2e5p-16, 0x1.42fe31752d1b6p-19, -0x1.780528fada5c6p-22, 0x1.ed27c668fc461p-25,
    -0x1.637a49fe1e088p-27, 0x1.14f242a73d252p-29, -0x1.ccbc00365cf5fp-32, 0x1.956d008a43059p-34,
    -0x1.76b539401d12cp-36, 0x1.69ab846c05207p-38, -0x1.6adec61fc71a4p-40, 0x1.78ffa0409e616p-42,
    -0x1.94465d4c8014bp-44, 0x1.be3e9590877a3p-46, -0x1.f9d52362a3e00p-48, 0x1.25cedf006519fp-49,
    -0x1.5d2a3d9ce2a50p-51, 0x1.a7d5e4c65543cp-53, -0x1.0661525866f5ap-54, 0x1.4af1aa55c043fp-56};
// J0(x), x = 0 .. 8, u = x^2 / 32 - 1
inline constexpr double j0_small[] = {0x1.4306e1f9314dbp-3,   -0x1.1dd989ce98ea2p-7,  0x1.0f8afb7d3a552p-2,
                                      -0x1.7afa2e9c62a9ep-2,  0x1.43b8af58b7ffap-3,   -0x1.1dd989ce98ea2p-5,
                                      0x1.3bd46ccab9da0p-8,   -0x1.e300651cd3ae3p-12, 0x1.104c067d74d17p-15,
                                      -0x1.d8f811cd3e853p-20, 0x1.46c4a4b32aa3bp-24,  -0x1.703bda6758f6fp-29,
                                      0x1.593076e904d04p-34,  -0x1.1192067e71726p-39, 0x1.73936aa3d0207p-45,
                                      -0x1.b5729d242acaep-51, 0x1.c2c89ea282aaap-57};
// J1(x) / x, x = 0 .. 8, u = x^2 / 32 - 1
inline constexpr double j1_small[] = {
    0x1.4bf5ae47a6150p-4,  -0x1.3119e17fdbffdp-3,  0x1.49b9fb3408e33p-3,  -0x1.52a8c7827daa8p-4,
    0x1.6bf2c1f5f71e1p-6,  -0x1.de030538b55b0p-9,  0x1.a8b56cedfe580p-12, -0x1.11188227a5012p-15,
    0x1.0a8a3a628fc7bp-19, -0x1.98f754605f635p-24, 0x1.fac17c7273311p-29, -0x1.030d00d42d6f4p-33,
    0x1.bcc0916376113p-39, -0x1.453d2b4e985cbp-44, 0x1.9a36afedba862p-50, -0x1.c2dff424052f8p-56};
// Y0(x) - 2 / pi log(x) J0(x), x = 0 .. 8, u = x^2 / 32 - 1
inline constexpr double y0_small[] = {-0x1.0f88700652ecbp-5,  -0x1.190fcad75eca2p-2,  0x1.6ea98ade961a1p-3,
                                      0x1.0bd84f7777bd6p-2,   -0x1.6b1d515347a69p-3,  0x1.82a2a1c96271fp-5,
                                      -0x1.dd9fb881100e6p-8,  0x1.8ad9320695af0p-11,  -0x1.d873fa854ed4dp-15,
                                      0x1.ae5f9e7adde46p-19,  -0x1.35649a4058471p-23, 0x1.68b1c63f94e89p-28,
                                      -0x1.5c457ea1daccep-33, 0x1.1b53ed8a54178p-38,  -0x1.89f1fa5209ce6p-44,
                                      0x1.d9b425efafdd8p-50,  -0x1.f1a7711576130p-56};
// (Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x, x = 0 .. 8, u = x^2 / 32 - 1
inline constexpr double y1_small[] = {0x1.4ca997b04b826p-9,   -0x1.07927e87fd36bp-6,  -0x1.88db11a1e0337p-4,
                                      0x1.59ea4fc627f66p-4,   -0x1.d020c3798a51ap-6,  0x1.5aadc0f38e31dp-8,
                                      -0x1.504ea6f6291cdp-11, 0x1.cde014f53622dp-15,  -0x1.dadf80f6e35f9p-19,
                                      0x1.7c45af600d3dcp-23,  -0x1.e8a21e8e1cb71p-28, 0x1.01c33ee943bc5p-32,
                                      -0x1.c6f1d25aa2e2ap-38, 0x1.54fcf661706ffp-43,  -0x1.b7b8e4b5d24fcp-49,
                                      0x1.ed24ebd671b40p-55,  -0x1.e58358b5996e3p-61};
// P of order 0, x = 8 .. infinity, u = 128 / x^2 - 1
inline constexpr double p0[] = {0x1.ffb944543151ep-1,   -0x1.194ac5283c04ap-11, 0x1.9cbe8b7395851p-19,
                                -0x1.bc26938a82ce2p-25, 0x1.c03a8b38ca73cp-30,  -0x1.59ddcc28538a8p-34,
                                0x1.6baf23642c655p-38,  -0x1.e4a709e74825bp-42, 0x1.85b481672b1eep-45,
                                -0x1.6d432cb7153fep-48, 0x1.84fff80b613c2p-51,  -0x1.cdb3179595bbdp-54,
                                0x1.2cca86c6338d9p-56};
// Q x / 8 of order 0, x = 8 .. infinity, u = 128 / x^2 - 1
inline constexpr double q0[] = {
    -0x1.fdbbf76547cafp-7,  0x1.1ed40c7bf4761p-14, -0x1.8e1017183d060p-21, 0x1.34c3b3f0f3e19p-26,
    -0x1.8fc71e52a5280p-31, 0x1.7334b27ad2886p-35, -0x1.c34f407df8ba4p-39, 0x1.52763be90a889p-42,
    -0x1.2c827d7f6e2d5p-45, 0x1.329f0c1b6c666p-48, -0x1.5fa3147b301c9p-51, 0x1.bd9648f62c6b8p-54,
    -0x1.33cdb710c05d6p-56, 0x1.cab223df72976p-59, -0x1.6d757f20d1676p-61, 0x1.351cf3ac934b3p-63};
// P of order 1, x = 8 .. infinity, u = 128 / x^2 - 1
inline constexpr double p1[] = {0x1.003b2e82f5f12p+0,   0x1.d7545f75d7da9p-11,  -0x1.0b9505ce79bbap-18,
                                0x1.0953cdc0829efp-24,  -0x1.01454cf5d6ac0p-29, 0x1.83c5742be2cc3p-34,
                                -0x1.9171afe32fc02p-38, 0x1.088a8b6783e50p-41,  -0x1.a5ead8bea617fp-45,
                                0x1.88e8192bcb004p-48,  -0x1.a045d1e6aa4e8p-51, 0x1.ebf5d803cd896p-54,
                                -0x1.3f5b1671b84fbp-56};
// Q x / 8 of order 1, x = 8 .. infinity, u = 128 / x^2 - 1
inline constexpr double q1[] = {0x1.7f34213492af6p-5,   -0x1.93d0e4fa70662p-14, 0x1.eaa02bf61504bp-21,
                                -0x1.681617e8645adp-26, 0x1.c467999a69933p-31,  -0x1.9c37875f5ebc0p-35,
                                0x1.eeb91abca8164p-39,  -0x1.6f877e53fb185p-42, 0x1.43f8057a1761fp-45,
                                -0x1.48ac416e30219p-48, 0x1.772d4dd737bf2p-51,  -0x1.d994b1fddb9f0p-54,
                                0x1.46123a8bbc898p-56,  -0x1.e48d4f144b8b2p-59, 0x1.811d207bb2e69p-61};
// Ai(x), x = -5 .. 2, u = (2x + 3) / 7
inline constexpr double airy_small[] = {
    0x1.36a8f8de3c918p-3,   -0x1.56aae6e52df16p-8,  -0x1.d6bede924c30ap-8,  -0x1.199bd9901e953p-2,
    0x1.38ac8bee2cedap-3,   0x1.ced62eb2c20b5p-4,   -0x1.08cf4bb4051d7p-3,  0x1.63d3afb369180p-6,
    0x1.9827e00345049p-6,   -0x1.d5c1e364c1b16p-7,  0x1.6d44134836864p-11,  0x1.02c9d5b2913fdp-9,
    -0x1.7b14b484b6d82p-11, -0x1.0e524b1f821bep-16, 0x1.55225c7066071p-14,  -0x1.5c8d8448a4e3ep-16,
    -0x1.aef77d358b2f9p-20, 0x1.13f42a74ee245p-19,  -0x1.9ac31b7674a7cp-22, -0x1.a619283b7eb8ep-25,
    0x1.2ddd62bbcbbbdp-25,  -0x1.4d0a81baa0173p-28, -0x1.e9299275ce708p-31, 0x1.dc10a5fa44e71p-32,
    -0x1.84533baeeb7eap-35, -0x1.866fa7f686350p-37, 0x1.1b38ed97fe685p-38,  -0x1.4d60d4a43f4d4p-42,
    -0x1.cdf67b32fa363p-44, 0x1.070ffca6ae911p-45,  -0x1.a5643b27c7fa5p-50, -0x1.a7fd63491e091p-51,
    0x1.87aee2322be83p-53,  -0x1.7517332d9a280p-58, -0x1.37a29e1980705p-58};
// 2 sqrt(pi) x^(1/4) exp(z) Ai(x), z = 2/3 x^(3/2) = 1.5 .. infinity, u = 3 / z - 1
inline constexpr double airy_decay[] = {
    0x1.f64adc36d5d32p-1,  -0x1.23b0e156675c2p-6,  0x1.10b5659d7bf5dp-10, -0x1.a7c08688b8cafp-14,
    0x1.b277d4ce10e66p-17, -0x1.0b801a55a02a3p-19, 0x1.785e543086479p-22, -0x1.257ee6cf18d27p-24,
    0x1.f14cfb9de01e4p-27, -0x1.c348c4f58c652p-29, 0x1.b218af2035d66p-31, -0x1.b7193ea43ec49p-33,
    0x1.d0266fe1a8f29p-35, -0x1.fe24f43aca8d4p-37, 0x1.224d8a88e47d3p-38, -0x1.54f74cdcc64e2p-40,
    0x1.9c179b6da99dap-42, -0x1.ff418d15f696ep-44, 0x1.44dca4cb23689p-45, -0x1.a620112489172p-47,
    0x1.17f84e4165564p-48, -0x1.7a943deaf7482p-50, 0x1.04997fa93d81ep-51, -0x1.6cdebec0c6175p-53,
    0x1.0382c95ba8b31p-54, -0x1.76b57b697bf48p-56, 0x1.125f20f7dd298p-57};
// P of Ai(-x), z = 7 .. infinity, u = 98 / z^2 - 1
inline constexpr double airy_p[] = {0x1.ffcf6db38e4cap-1,   -0x1.81c2fc7823a08p-12, 0x1.600c15a572f36p-19,
                                    -0x1.d68d47492e757p-25, 0x1.22a3e97eb846bp-29,  -0x1.0e4bd20a0c4e0p-33,
                                    0x1.51c0576ea7258p-37,  -0x1.0827f270f0eb7p-40, 0x1.ed5da0394e1dbp-44,
                                    -0x1.0a138c8c68657p-46, 0x1.43871d1825e72p-49,  -0x1.b366c60d139b9p-52,
                                    0x1.3fb2b28017d61p-54,  -0x1.fa90aaa3d4aabp-57};
// Q z of Ai(-x), z = 7 .. infinity, u = 98 / z^2 - 1
inline constexpr double airy_q[] = {0x1.1aec4795a619fp-4,   -0x1.801f07fb24a9ep-12, 0x1.4d95b4d73ae4ap-18,
                                    -0x1.40408c758b9ffp-23, 0x1.f92dde44f64ecp-28,  -0x1.196b9f3002104p-31,
                                    0x1.9503c3f9bfd38p-35,  -0x1.6359dc07816e7p-38, 0x1.6d65442e540dcp-41,
                                    -0x1.ac078e7998762p-44, 0x1.17a6aee5f5dcep-46,  -0x1.911ce1618ee56p-49,
                                    0x1.37d0c7a51efc5p-51,  -0x1.041f117e111afp-53, 0x1.cdf0ce43a7354p-56,
                                    -0x1.b1a7eb0ccb8f1p-58, 0x1.abff82b2cb537p-60};

}  // namespace mt::cpu::special::tables
