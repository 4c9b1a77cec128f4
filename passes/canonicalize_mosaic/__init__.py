"""`canonicalize-mosaic`: only operations and element types that the target executes."""

from pallasite.passes.canonicalize_mosaic.driver import CanonicalizeMosaicPass

__all__ = ["CanonicalizeMosaicPass"]
