"""The constants of the functions in `functions.py`: those of `csrc/kernels/cpu/math/constants.h`, by the same names.

A test compares the two.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["DOUBLE", "FLOAT", "TWO_OVER_PI"]


def _hex(text: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, text.split()))


_one = float.fromhex

FLOAT: Final[dict[str, Any]] = {
    "two_over_pi": _one("0x1.45f306p-1"),
    "pio2_1": _one("0x1.921fb6p+0"),
    "pio2_2": _one("-0x1.777a5cp-25"),
    "pio2_3": _one("-0x1.ee59dap-50"),
    "pi_4_low": _one("-0x1.777a5cp-26"),
    "trig_limit": _one("0x1p+15"),
    "tan_pi_8": _one("0x1.a8279ap-2"),
    "log2e_low": _one("0x1.4ae0cp-26"),
    "log10e": _one("0x1.bcb7b2p-2"),
    "log10e_low": _one("-0x1.5b235ep-27"),
    "log10_2": _one("0x1.344p-2"),
    "log10_2_low": _one("0x1.3509f8p-18"),
    "exp2_low": (-150.0),
    "exp2_high": (128.0),
    "log_large": _one("0x1p+13"),
    "erf_one": (3.95),
    "half_exp_high": (90.0),
    "big": _one("0x1p+100"),
    "exp2": _hex("0x1.62e43p-1 0x1.ebfbep-3 0x1.c6b08ep-5 0x1.3b29fp-7 0x1.5d8722p-10 0x1.445e8ep-13 0x1.00f1c8p-16"),
    "sin": _hex("-0x1.555556p-3 0x1.111108p-7 -0x1.a00f7ep-13 0x1.6cd1bap-19"),
    "cos": _hex("0x1.55554ap-5 -0x1.6c0c32p-10 0x1.99eb4cp-16"),
    "atan": _hex("-0x1.55554ap-2 0x1.999196p-3 -0x1.23b51ap-3 0x1.b1eb96p-4 -0x1.f1ea08p-5"),
    "asin": _hex("0x1.5555c8p-3 0x1.3301ccp-4 0x1.7480e8p-5 0x1.8c0c5p-6 0x1.59869p-5"),
    "sinh": _hex("0x1.555556p-3 0x1.111134p-7 0x1.9ffe9p-13 0x1.7a15f8p-19"),
    "erf_near": _hex(
        "0x1.06eba8p-3 -0x1.81273ep-2 0x1.ce2cf8p-4 -0x1.b7f90ap-6 0x1.54059p-8 -0x1.a3f5f6p-11 0x1.496728p-14"
    ),
    "erf_far": _hex(
        "0x1.d97fcp+0 0x1.51c9bp+1 0x1.afabbcp-1 0x1.547ceep-5 -0x1.4933b8p-7 0x1.07b63cp-9 "
        "-0x1.2f96e8p-12 0x1.6bd5d6p-16"
    ),
    "erfc": _hex(
        "0x1.3ccda0acf3983p+0 -0x1.1f36775c3ff89p-3 0x1.d5f9b1cf51d6fp-9 0x1.5101a4f221b59p-4 "
        "-0x1.bdace0b042f66p-4 0x1.7a117cb11ac74p-4 -0x1.e0a3de39469b6p-5 0x1.d0e69f281a9dfp-6 "
        "-0x1.415dd7e510c2fp-7 0x1.c3396efbf28dap-10 0x1.8b6ef80672413p-12 -0x1.02045a09caf05p-12"
    ),
    "erfinv_near_middle": (2.5),
    "erfinv_far_middle": (3.0),
    "erfinv_near": _hex(
        "0x1.805c5ep+0 0x1.f91ec6p-3 -0x1.11ca4ap-8 -0x1.48a6fep-10 0x1.ca707cp-13 -0x1.270584p-18 "
        "-0x1.d994dap-19 0x1.710092p-22 0x1.e98e5ep-26"
    ),
    "erfinv_far": _hex(
        "0x1.6a9efcp+1 0x1.006db6p+0 0x1.354b8cp-7 -0x1.f37aaap-8 0x1.78228cp-8 -0x1.e1e218p-9 "
        "0x1.61ce56p-10 0x1.b2675ep-14 -0x1.a52214p-13"
    ),
    "normal": _hex(
        "0x1.fff7b2p-3 -0x1.ff6b5ep-4 0x1.7d5f22p-4 -0x1.37f688p-4 0x1.0547cep-4 -0x1.b0dd72p-5 "
        "0x1.5abf7ep-5 -0x1.091ca6p-5 0x1.809f7p-6 -0x1.0479dep-6 0x1.4327d8p-7 -0x1.8bae1ep-8 "
        "0x1.00489p-8 -0x1.fbaab6p-10 0x1.df1d6cp-12 -0x1.3b92fp-12 0x1.b4a17cp-12 -0x1.49bc3ap-13"
    ),
    "pow_log": _hex("0x1.999995439522ep-2 0x1.249550264e2edp-2 0x1.c5aa1de6049fbp-3 0x1.98dc02a2d247dp-3"),
    "pow_exp": _hex(
        "0x1.0000003a42152p-1 0x1.55555442f2a4p-3 0x1.55548d840424fp-5 0x1.111270d0f4f14p-7 "
        "0x1.6d8d410acec36p-10 0x1.9f08d29429b1cp-13"
    ),
}

DOUBLE: Final[dict[str, Any]] = {
    "two_over_pi": _one("0x1.45f306dc9c883p-1"),
    "pio2_1": _one("0x1.921fb54442d18p+0"),
    "pio2_2": _one("0x1.1a62633145c07p-54"),
    "pio2_3": _one("-0x1.f1976b7ed8fbcp-110"),
    "pi_4_low": _one("0x1.1a62633145c07p-55"),
    "trig_limit": _one("0x1p+30"),
    "tan_pi_8": _one("0x1.a827999fcef32p-2"),
    "log2e_low": _one("0x1.777d0ffda0d24p-56"),
    "log10e": _one("0x1.bcb7b1526e50ep-2"),
    "log10e_low": _one("0x1.95355baaafad3p-57"),
    "log10_2": _one("0x1.34413509f7p-2"),
    "log10_2_low": _one("0x1.3fde623e2566bp-43"),
    "exp2_low": (-1076.0),
    "exp2_high": (1024.0),
    "log_large": _one("0x1p+28"),
    "erf_one": (6.0),
    "half_exp_high": (711.0),
    "big": _one("0x1p+1000"),
    "exp2": _hex(
        "0x1.62e42fefa39efp-1 0x1.ebfbdff82c58fp-3 0x1.c6b08d704a0cp-5 0x1.3b2ab6fba4e7dp-7 "
        "0x1.5d87fe78a6738p-10 0x1.430912f869f9cp-13 0x1.ffcbfc5887231p-17 0x1.62c022493461p-20 "
        "0x1.b5253d4b60d6p-24 0x1.e4cef8106bf6p-28 0x1.e8ca6e5d24b74p-32 0x1.c4c584617a295p-36 "
        "0x1.82413d2c40fabp-40"
    ),
    "sin": _hex(
        "-0x1.5555555555555p-3 0x1.111111111110bp-7 -0x1.a01a01a018a66p-13 0x1.71de3a533003ap-19 "
        "-0x1.ae64528ccda64p-26 0x1.61208bd6e928ep-33 -0x1.aaa20ecfe299ep-41"
    ),
    "cos": _hex(
        "0x1.5555555555555p-5 -0x1.6c16c16c16c0fp-10 0x1.a01a01a018cc5p-16 -0x1.27e4fb75eb345p-22 "
        "0x1.1eed8c9067d9ep-29 -0x1.939323adcd25fp-37 0x1.aabce570c3c4dp-45"
    ),
    "atan": _hex(
        "-0x1.5555555555555p-2 0x1.999999999997p-3 -0x1.2492492490a05p-3 0x1.c71c71c60c8adp-4 "
        "-0x1.745d171266bc9p-4 0x1.3b13aaf7d05f5p-4 -0x1.11108cb6a9e14p-4 0x1.e1d2a06f97bb6p-5 "
        "-0x1.ae88fff491a65p-5 0x1.817a9b3828045p-5 -0x1.4c2db0a04e387p-5 0x1.e5160dd84d36ap-6 "
        "-0x1.a9338869ea5d8p-7"
    ),
    "asin": _hex(
        "0x1.5555555555577p-3 0x1.333333332e08cp-4 0x1.6db6db7219f85p-5 0x1.f1c71a921a965p-6 "
        "0x1.6e8bdf3168e4cp-6 0x1.1c49ea9301052p-6 0x1.ca201abfc2ab3p-7 0x1.7580ef8c4f1a9p-7 "
        "0x1.6156d6509827ap-7 0x1.e460b9a933393p-9 0x1.6419e7c821c7bp-6 -0x1.58b25e9549b46p-6 "
        "0x1.0b8059691ba1dp-5"
    ),
    "sinh": _hex(
        "0x1.5555555555555p-3 0x1.1111111111111p-7 0x1.a01a01a019fc1p-13 0x1.71de3a5573f86p-19 "
        "0x1.ae6456741a9bbp-26 0x1.61246afad0bd2p-33 0x1.ae756e28e4959p-41 0x1.9a795ffb693ecp-49"
    ),
    "erf_near": _hex(
        "0x1.06eba8214db69p-3 -0x1.812746b0379e6p-2 0x1.ce2f21a042b2p-4 -0x1.b82ce3128498ep-6 "
        "0x1.565bcd0db0072p-8 -0x1.c02db3d8e5b07p-11 0x1.f9a321a03a01dp-14 -0x1.f4d1df27816ep-17 "
        "0x1.b9def0b1cb768p-20 -0x1.5f1d2eb24bd48p-23 0x1.f7a3b9092a465p-27 -0x1.3869a63ddac44p-30 "
        "0x1.05769c9697d6fp-34"
    ),
    "erf_far": _hex(
        "0x1.d97fbf27aa2a1p+0 0x1.51c9b0006c23cp+1 0x1.afabc11a29022p-1 0x1.5477f09c913bbp-5 "
        "-0x1.48c9d406eedd2p-7 0x1.033f68efc2ffbp-9 -0x1.f1b485b379eep-13 -0x1.b8c45e28ed49cp-16 "
        "0x1.c76932ee678b4p-16 -0x1.41937508f50bbp-17 0x1.1016781200d48p-19 -0x1.dda88f0ffdf33p-24 "
        "-0x1.036fe7df3c8e2p-23 0x1.16dddd8f1ce35p-24 -0x1.5beda224c6971p-26 0x1.3475894622045p-28 "
        "-0x1.8ba5e87becebdp-31 0x1.5f54874732e64p-34 -0x1.830b65c70f442p-38 0x1.8e0a3bf3b0a4fp-43"
    ),
    "erfc": _hex(
        "0x1.3ccda0b5d5dc2p+0 -0x1.1f367683f89a7p-3 0x1.d5f2948159cf7p-9 0x1.510169d0967fep-4 "
        "-0x1.bda9309a2881fp-4 0x1.7a14188a99c14p-4 -0x1.e0d0fa6e02a72p-5 0x1.d0b0037dc7776p-6 "
        "-0x1.3f603c3340f0dp-7 0x1.cc3a0e2645c6bp-10 0x1.33fb23f84bb83p-12 -0x1.303f9e17ce3bep-12 "
        "0x1.b14459c43628bp-15 0x1.778a56b11d0b9p-16 -0x1.800976655a1eep-17 -0x1.053001ad68d55p-20 "
        "0x1.d6c5bf6f95abdp-20 -0x1.f1311be10b14ep-25 -0x1.18e4c03b5ac74p-22 0x1.9631af84a6f58p-26 "
        "0x1.632030e9a091fp-25 -0x1.fb929a691d2a6p-29 -0x1.c927713caede2p-28 0x1.efbed0499bf24p-34 "
        "0x1.ce19223fd47fdp-31 0x1.63836cae748b9p-34 -0x1.11d6f46f07480p-35"
    ),
    "erfinv_near_middle": (3.125),
    "erfinv_far_middle": (3.25),
    "erfinv_near": _hex(
        "0x1.a755e7c99ae86p+0 0x1.ebd80d9b13df7p-3 -0x1.8b6c33114ee45p-8 -0x1.8457694834144p-11 "
        "0x1.879c2a20d6e6cp-13 -0x1.d1d1f7cb057e1p-17 -0x1.6e8a53ee5a28cp-20 0x1.c6b4f8aec1c6ap-22 "
        "-0x1.f36ce539e3d09p-26 -0x1.1a9eb6de39bc3p-28 0x1.20f4eae35ba1dp-30 -0x1.dc3dd7bf52d65p-35 "
        "-0x1.c89601ec3e976p-37 0x1.723099ed0e3b8p-39 -0x1.6d8fd0d311451p-44 -0x1.683342b2c961cp-45 "
        "0x1.db34fb2ce6f61p-48 -0x1.8ad05ba498afp-55 -0x1.2bdf4753216c5p-53 0x1.22a18c72053f4p-56 "
        "0x1.51e6b7375b8f4p-60 -0x1.a5e1310cf03e9p-62 -0x1.3396434d861f1p-70 0x1.fd8aedef8cd94p-69"
    ),
    "erfinv_far": _hex(
        "0x1.8abcc380d5a47p+1 0x1.0158a6d641d3ap+0 0x1.5ffcfe5b7a89dp-8 -0x1.ebadabb89a712p-9 "
        "0x1.468eeca3c6c5cp-9 -0x1.ba92413176f5ap-10 0x1.f3cc561536278p-11 -0x1.7448a8d82f7fdp-12 "
        "0x1.932c5ec290f1ep-16 0x1.1e68517cf0d5fp-14 -0x1.8cedf005e59dp-15 0x1.a299ac288a91p-17 "
        "0x1.8827c9c5e14f7p-19 -0x1.0d5c9e571bda5p-18 0x1.942b323febefap-20 0x1.3895a89e0a87ap-26 "
        "-0x1.2a6912cf3a1bdp-22 0x1.85d73227c8a04p-24 0x1.c46ce282766c9p-29"
    ),
    "erfinv_farthest": _hex(
        "0x1.3664ddd1ad7fap+2 0x1.02a30d1fba0dcp+0 -0x1.22ea5def91b1p-13 -0x1.c2f36a8fc69fdp-13 "
        "0x1.3ebf4e9409b7fp-14 -0x1.4a3497eb8818ap-16 0x1.2fbd377993097p-18 -0x1.0a8d3b1c60b9dp-20 "
        "0x1.ebc2320c96da6p-23 -0x1.22d375b949651p-24 0x1.f52ea617f5f35p-26 -0x1.00f99d98fc38ap-26 "
        "0x1.04b2d420aeebep-27 -0x1.0487d37c663fep-28 0x1.a3159ce4980f2p-30 -0x1.186178657763p-32 "
        "-0x1.12aa502a6f852p-35"
    ),
    "pow_log": _hex(
        "0x1.999999999999ap-2 0x1.24924924922d8p-2 0x1.c71c71c753be6p-3 0x1.745d1728b522ap-3 "
        "0x1.3b13ba4ee5cadp-3 0x1.110f4db9cfd0bp-3 0x1.e250197df0153p-4 0x1.a6f66bb3e9f8p-4 "
        "0x1.dbe1f46f3e77bp-4"
    ),
    "pow_exp": _hex(
        "0x1p-1 0x1.555555555555bp-3 0x1.5555555555503p-5 0x1.111111110ec48p-7 0x1.6c16c16c30564p-10 "
        "0x1.a01a01b386801p-13 0x1.a01a013666b71p-16 0x1.71ddf00bcb477p-19 0x1.27e5b472cadd4p-22 "
        "0x1.af6c0d0f24f32p-26 0x1.1e3d1f4da9b3bp-29"
    ),
}

# The first 1280 bits of 2/pi.
TWO_OVER_PI: Final = (
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)
